"""Pages and parts of pages that the code knows: made when the site is built, never committed.

`contents.pages()` maps a page's path to its Markdown; `contents.parts()` maps the name in a
``<!-- generated: layers -->`` comment of a written page to what replaces it. Nothing here knows the
builder of the site: `docs/hook.py` is the only file that does.
"""

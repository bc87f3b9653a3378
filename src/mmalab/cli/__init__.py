"""The command line, ``mmalab VERB``: one file per verb, loaded when its verb is called."""

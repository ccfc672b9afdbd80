"""Where serving configuration lives: files in, `Deployment`s out, every value with its file, line and column.

    files.py       which files are read, and how much of each
    tree.py        YAML as a tree of located values; document.py splits a file and keeps a bad document from the others
    shell.py       words, quotes and expansions of a shell; script.py follows a program's variables and branches
    variables.py   what `$NAME`, `${NAME:-x}` and `$(NAME)` stand for
    flags.py       the engines' own flag tables; argv.py reads a command line by them, launch.py finds one
    pods.py        containers, GPUs, node selectors
    kinds/         one file a kind of manifest

Nothing is executed, and no file is read but the given ones and those that a manifest names.
"""

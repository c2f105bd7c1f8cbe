"""`python -m mico.cli`: the command line."""

from mico.cli import main

if __name__ == "__main__":
    main()

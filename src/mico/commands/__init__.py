"""One module a command of the command line; each has `main(argv)`."""

"""`python -m dally` is `dally`."""

from dally.cli.main import main

if __name__ == "__main__":
    main()

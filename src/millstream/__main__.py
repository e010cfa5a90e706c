"""``python -m millstream`` is the ``millstream`` command."""

from millstream.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m fedprof`` is ``fedprof``."""

from fedprof.cli.main import main

if __name__ == "__main__":
    main()

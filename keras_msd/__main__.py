"""`python -m keras_msd`: the command line without its script on the path."""

from keras_msd.cli import main

if __name__ == "__main__":
    main()

"""`python -m mashbox`: the same as the command `mashbox`."""

from mashbox.cli import main

main()

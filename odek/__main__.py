"""python -m odek"""

import sys

from odek.cli.main import main

sys.exit(main(sys.argv[1:]))

import sys

from mmlp.cli.main import main

sys.exit(main())

package ctrd

import "os"

const childEnv = "DROVER_E2E_CHILD"

func child() { os.Exit(3) }

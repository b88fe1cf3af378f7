package fleet

import "strconv"

func revision(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

//go:build race

package planner_test

import "flag"

// raced reports whether the race detector runs. Plans are made by one goroutine, so it has nothing to find here, and takes ten times
// as long: the search and the properties are thinned.
const raced = true

func init() {
	if err := flag.Set("rapid.checks", "15"); err != nil { // instead of 100; on the command line it counts
		panic(err)
	}
}

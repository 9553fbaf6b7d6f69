//go:build race

package planner_test

import "flag"

// raced reports whether the race detector runs. One goroutine makes the plans, so it finds nothing here, and takes ten times as
// long: the search and the properties are thinned.
const raced = true

func init() {
	if err := flag.Set("rapid.checks", "15"); err != nil { // instead of 100; the command line overrides it
		panic(err)
	}
}

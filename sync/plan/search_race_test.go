//go:build race

package plan_test

// raced reports whether the race detector runs. The search is one goroutine, so it has nothing to find there, and takes ten times as long.
const raced = true

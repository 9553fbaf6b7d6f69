//go:build race

package check

// thinning is the fraction of violations that a run tests: the race detector makes each seven times as expensive. make world tests all of
// them, without it.
const thinning = 4

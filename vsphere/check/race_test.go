//go:build race

package check

// thinning is the fraction of violations, and of calls that fail, that a run tests: the race detector makes each seven times as expensive.
// make world tests all of them, without it.
const thinning = 4

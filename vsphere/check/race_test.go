//go:build race

package check

// thinning is n if a run tests one of n violations, failing calls and missing requirements: the race detector makes each case seven times
// as expensive. make world tests all cases, without the race detector.
const thinning = 16

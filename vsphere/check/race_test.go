//go:build race

package check

// thinning says how thinly a run tests violations, calls that fail, and what can be lacking, one of so many: the race detector makes each
// seven times as expensive. make world tests all of them, without it.
const thinning = 16

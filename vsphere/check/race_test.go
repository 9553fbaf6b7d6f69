//go:build race

package check

// thinning is how many beliefs there are for each that a plain run makes false: the race detector makes each seven times as dear. make world
// makes all of them false, without it.
const thinning = 4

//go:build race

package world

// thinning divides the number of lives of a plain run: the race detector makes each ten times as expensive.
const thinning = 10

//go:build race

package world

// thinning divides how many lives a plain run leads: the race detector makes each ten times as dear.
const thinning = 10

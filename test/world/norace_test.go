//go:build !race

package world

// thinning divides the number of lives of a plain run.
const thinning = 1

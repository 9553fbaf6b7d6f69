//go:build !race

package world

// thinning divides how many lives a plain run leads.
const thinning = 1

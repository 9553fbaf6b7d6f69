//go:build !race

package check

const thinning = 1

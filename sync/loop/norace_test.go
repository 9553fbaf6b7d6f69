//go:build !race

package loop

// raced: see race_test.go.
const raced = false

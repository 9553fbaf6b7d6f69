//go:build !race

package pace

// raced: see race_test.go.
const raced = false

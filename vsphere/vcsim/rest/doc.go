// Package rest is the REST API of the embedded vCenter, of which tagging is of interest.
//
// It promises that sessions end with the others, that calls count and fail as told, and that a tag is attached only where it
// can be. The answers are those of govmomi's simulator.
//
// The order of locks: attaching before any other; mu comes last, and is held for moments only.
package rest

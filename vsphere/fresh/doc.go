// Package fresh reads what a step must know right before it acts: a VM that is about to change, what is in a folder that is about to go,
// the clones under way.
//
// It promises that an answer is from a read that began after the question. One read answers all steps that ask within 10 ms; where
// that fails, or lacks an object, each step reads by itself, so no step fails for another's object.
//
// Locks: rounds.mu guards who waits for which read; it is taken alone, and never held across a call.
package fresh

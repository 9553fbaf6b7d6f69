// Package stamp encodes the record of the group to which a VM belongs. The record is a text in the VM itself, at one extraConfig key. The task
// that creates the VM writes it.
//
// The package promises that a VM with a text that is not a stamp of this version, or with another VM's stamp, belongs to no group; that equal
// stamps are encoded as equal bytes; and that a stamp keeps the keys that only a newer server knows.
//
// It makes no calls, keeps no state and has no locks.
package stamp

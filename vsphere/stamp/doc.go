// Package stamp says whose a VM is: by a text in the VM itself, under one extraConfig key, written by the very task that makes it.
//
// It promises that whatever is not a stamp of this version, or is that of another VM, makes no VM anybody's; that equal stamps
// give equal bytes; and that a stamp keeps the keys that only a newer server knows.
//
// It makes no calls, keeps no state and has no locks.
package stamp

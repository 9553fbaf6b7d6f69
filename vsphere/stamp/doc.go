// Package stamp records which group a VM belongs to: in a text in the VM itself, under one extraConfig key, which the task that makes the VM writes.
//
// It promises that a text that is no stamp of this version, or another VM's stamp, makes no VM a group's; that equal stamps
// give equal bytes; and that a stamp keeps the keys that only a newer server knows.
//
// It makes no calls, keeps no state and has no locks.
package stamp

// Package tagging finds tags and their categories by name, which vCenter can't do, computes the changes of a VM's tags, and watches for VMs that lose
// one.
//
// It promises that it attaches and detaches only tags that the spec names or has named; that it checks that a change is possible before it
// changes anything; that it creates a tag or category only if the spec has create: true; and that fifty members need few more calls than one.
//
// Locks: a Watcher has none; only Run uses its state. One goroutine at a time has a Cache open, also while it makes calls. It must hold no lock when it opens the Cache.
package tagging

// Package tagging finds tags and their categories by name, which vCenter cannot, and says what to change in a VM's tags.
//
// It promises that only tags that the spec names, now or formerly, are touched; that it checks that a change is possible before anything
// is changed; that a tag or category is created only if the spec says so; and that fifty members cost little more than one.
//
// Locks: one goroutine at a time has a Cache open, also while it asks vCenter. It must hold no lock when it opens the Cache.
package tagging

// Package tagging finds tags and their categories by name, which vCenter does not, and says what is to be done to a VM's tags.
//
// It promises that only tags that the spec names, now or formerly, are touched; that what cannot be done is found before anything is
// done; that a tag or category is made only where the spec says so; and that fifty members cost little more than one.
//
// Locks: who has a Book open has it alone, while vCenter is asked. A Book is opened with no lock held.
package tagging

package planner

import (
	"hash/fnv"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member that is too old differs from the spec, and an update replaces it like any other that differs: within maxSurge and maxUnavailable,
// in the windows, and not while the update is held or has stopped. A replacement that began before a window closed is finished.

// tooOld reports whether a member is as old as update.maxAgeSeconds lets it become, and when it will be; zero if never. Its age counts from its
// stamp: stamps of older servers have no time, and that of an adopted VM has the time of its adoption.
func (f *facts) tooOld(vm *plan.VM) (is bool, due time.Time) {
	if f.policy.MaxAge == 0 || vm.Created.IsZero() {
		return false, time.Time{}
	}
	due = vm.Created.Add(lifeOf(f.policy.MaxAge, string(f.Group.UID), vm.Ordinal))
	if !f.AgesAt.IsZero() {
		return !f.AgesAt.Before(due), time.Time{}
	}
	return !f.Now.Before(due), due
}

// lifeOf is how old a member becomes whose group has a greatest age: between nine tenths of that and all of it. Members that were made
// together are spread evenly over that time by their ordinals, and groups by their UIDs.
func lifeOf(greatest time.Duration, group string, ordinal int32) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(group))                   // never fails
	place := hash.Sum32() + uint32(ordinal)*2654435769 // 2^32 by the golden ratio: each multiple falls into the widest gap between those before it
	return greatest - time.Duration(int64(greatest.Seconds())/10*int64(place)>>32)*time.Second
}

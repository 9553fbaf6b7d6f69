package loop

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// folders are those of the group that this replica has seen or made: only they are used, because nothing in vCenter says whose a folder is.
type folders struct {
	seen      time.Time // when vCenter last showed the group's folder
	made      bool      // CreateFolder succeeded, and vCenter hasn't been observed since
	blind     bool      // vCenter's state was unknown when the newest call came
	own       []string  // moRefs of folders that were at the group's path: see plan.Observed
	ofMembers []string  // and of those elsewhere that members were in
}

// saw remembers where the group's folder and its members are. ends: the group is being deleted, and was not seen to be empty.
func (f *folders) saw(o *plan.Observed, ends bool) {
	if o.State.Folder != "" && o.Now.After(f.seen) {
		f.seen = o.Now
	}
	if ends && len(f.own) == 0 {
		f.own = owning(f.own, o.State.Folder)
	}
	for i := range o.State.VMs {
		switch folder := o.State.VMs[i].Folder; {
		case !o.State.VMs[i].Quarantined.IsZero():
		case folder == o.State.Folder:
			f.own = owning(f.own, folder)
		default:
			f.ofMembers = owning(f.ofMembers, folder)
		}
	}
}

// owning adds a folder, if there is one, to the group's own.
func owning(folders []string, folder string) []string {
	if folder == "" || slices.Contains(folders, folder) {
		return folders
	}
	return append(slices.Clip(folders), folder) // observations share the slice
}

package disks

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// Found is what Find found.
type Found struct {
	Disks []Disk
	// Unread says, by moRef, which datastores could not be listed or read to the end, and why. If there are any, a disk that was not
	// found may be there.
	Unread map[string]error
	// Skipped are disks that a datastore lists and that vCenter then does not show, by id, and why: they move, somebody deleted their files, and
	// the list keeps them (govmomi#3659), or a disk is broken (ansible-collections/community.vmware#1988). Those that this process has
	// seen to be of a wanted owner make their datastore Unread. Of the others nobody here knows whose they are, and each volume of Kubernetes is one: only
	// a caller that knows an id has to care.
	Skipped map[string]error
}

// Complete reports whether all datastores were read to the end.
func (f Found) Complete() bool { return len(f.Unread) == 0 }

// Find returns the disks on those datastores (by moRef) whose owner is wanted. vCenter shows a new disk late, so one that
// was created a moment ago may not be among them, even if the answer is complete.
//
// It lists the disks of each datastore, and reads each: there may be thousands of others, such as Kubernetes volumes, so it remembers for
// an hour whose each was. It makes at most findersMost calls at once.
func (d *FirstClass) Find(ctx context.Context, datastores []string, wanted func(Owner) bool) Found {
	found := Found{Unread: map[string]error{}, Skipped: map[string]error{}}
	for _, datastore := range datastores {
		ids, err := d.list(ctx, datastore)
		if err != nil {
			found.Unread[datastore] = err
			continue
		}
		d.readAll(ctx, datastore, d.owners.among(ids, wanted), wanted, &found)
	}
	return found
}

// findersMost is how many disks of one datastore are read at once.
const findersMost = 8

func (d *FirstClass) list(ctx context.Context, datastore string) (ids []types.ID, err error) {
	err = d.call(ctx, func(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) error {
		res, err := methods.ListVStorageObject(ctx, s.Vim, &types.ListVStorageObject{This: manager, Datastore: datastoreRef(datastore)})
		if err == nil {
			ids = res.Returnval
		}
		return err
	})
	return ids, refused(reading, err)
}

// readAll reads disks of one datastore, and adds those that are wanted to found, in the order of ids.
func (d *FirstClass) readAll(ctx context.Context, datastore string, ids []types.ID, wanted func(Owner) bool, found *Found) {
	type answer struct {
		disk Disk
		err  error
	}
	answers, places := make([]answer, len(ids)), make(chan struct{}, findersMost)
	var reads sync.WaitGroup
	for i, id := range ids {
		places <- struct{}{}
		reads.Go(func() {
			defer func() { <-places }()
			answers[i].disk, answers[i].err = d.Retrieve(ctx, Ref{ID: id.Id, Datastore: datastore})
		})
	}
	reads.Wait()
	for i, a := range answers {
		at := Ref{ID: ids[i].Id, Datastore: datastore}
		switch {
		case a.err == nil:
			d.owners.note(at.ID, a.disk.Owner)
			if wanted(a.disk.Owner) {
				found.Disks = append(found.Disks, a.disk)
			}
		case session.IsFatal(a.err): // not about this disk
			found.Unread[datastore] = a.err
		default:
			found.Skipped[at.ID] = a.err
			if o, known := d.owners.owner(at.ID); known && wanted(o) {
				found.Unread[datastore] = a.err
			}
		}
	}
}

const (
	// rememberFor is how long a disk of somebody else is not read again: an operator may change its metadata by hand.
	rememberFor = time.Hour
	// rememberMost is how many disks are remembered before those that were not read for that long are forgotten.
	rememberMost = 20_000
)

// owners remembers whose disks were, by id.
type owners struct {
	mu     sync.Mutex
	owners map[string]entry
}

type entry struct {
	owner Owner
	at    time.Time
}

// note records whose a disk is.
func (b *owners) note(id string, o Owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owners == nil {
		b.owners = map[string]entry{}
	}
	if len(b.owners) >= rememberMost {
		maps.DeleteFunc(b.owners, func(_ string, e entry) bool { return time.Since(e.at) > rememberFor })
	}
	b.owners[id] = entry{o, time.Now()}
}

// owner returns whose a disk was when it was last read.
func (b *owners) owner(id string) (o Owner, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, known := b.owners[id]
	return e.owner, known
}

// among returns those disks that may be of a wanted owner.
func (b *owners) among(ids []types.ID, wanted func(Owner) bool) (may []types.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if e, known := b.owners[id.Id]; !known || wanted(e.owner) || time.Since(e.at) > rememberFor {
			may = append(may, id)
		}
	}
	return may
}

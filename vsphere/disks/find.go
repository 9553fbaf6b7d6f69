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

// Found is the result of Find.
type Found struct {
	Disks []Disk
	// Unread has an error for each datastore, by moRef, that could not be listed, or of which a disk could not be read. A disk that was not
	// found may be on one of them.
	Unread map[string]error
	// Skipped has an error for each disk, by id, that a datastore lists but that vCenter does not return: the disk is being moved, its files
	// were deleted and the list still has it (govmomi#3659), or it is broken (ansible-collections/community.vmware#1988). If this process has
	// read that such a disk has a wanted owner, the disk's datastore is in Unread, too. The owner of the others is unknown; most are Kubernetes
	// volumes. Only a caller that looks for a certain id needs Skipped.
	Skipped map[string]error
}

// Complete reports whether all datastores were read to the end.
func (f Found) Complete() bool { return len(f.Unread) == 0 }

// Find returns the disks on those datastores (by moRef) whose owner is wanted. vCenter lists a new disk late, so a disk that
// was created a moment ago may be absent even from a complete result.
//
// Find lists the disks of each datastore, and reads each of them. Thousands may be other disks, such as Kubernetes volumes, so it remembers
// their owners for rememberFor. It makes at most findersMost calls at once.
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

// findersMost is how many disks of one datastore Find reads at once.
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
		case session.IsFatal(a.err): // the error is of the session, not of this disk
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
	// rememberFor is the time after which a disk of another owner is read again, because an operator can change its metadata by hand.
	rememberFor = time.Hour
	// rememberMost is the number of remembered disks from which on those that were not read for rememberFor are forgotten.
	rememberMost = 20_000
)

// owners remembers the owners of disks, by the disk's id.
type owners struct {
	mu     sync.Mutex
	owners map[string]entry
}

type entry struct {
	owner Owner
	at    time.Time
}

// note remembers a disk's owner.
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

// owner returns the owner that a disk had when it was last read.
func (b *owners) owner(id string) (o Owner, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, known := b.owners[id]
	return e.owner, known
}

// among returns the disks that may have a wanted owner.
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

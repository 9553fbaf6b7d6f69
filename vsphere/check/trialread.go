package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// derived are types of which one read names properties that their base types do not have, as the server's reads do.
var derived = []struct{ folder, base, special, property string }{
	{"networkFolder", "Network", "DistributedVirtualPortgroup", "key"},
	{"hostFolder", "ComputeResource", "ClusterComputeResource", "configurationEx"},
	{"datastoreFolder", "Folder", "StoragePod", "podStorageDrsEntry.storageDrsConfig.podConfig.enabled"},
}

// derivedTypes reads them, each with its base type in one call.
func (t *trial) derivedTypes(ctx context.Context) verdict {
	var seen []string
	facts, without := Facts{}, ""
	for _, d := range derived {
		children := types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "children"}, Type: "Folder", Path: "childEntity",
			SelectSet: []types.BaseSelectionSpec{&types.SelectionSpec{Name: "children"}}}
		var objects []session.Object
		err := t.v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
			objects, err = session.ReadObjects(ctx, s, types.PropertyFilterSpec{
				ObjectSet: []types.ObjectSpec{{Obj: t.at.Datacenter, Skip: types.NewBool(true), SelectSet: []types.BaseSelectionSpec{
					&types.TraversalSpec{Type: "Datacenter", Path: d.folder, SelectSet: []types.BaseSelectionSpec{&types.SelectionSpec{Name: "children"}}}, &children}}},
				PropSet: []types.PropertySpec{{Type: d.base, PathSet: []string{"name"}}, {Type: d.special, PathSet: []string{"name", d.property}}},
			})
			return err
		})
		if err != nil {
			return refused(err)
		}
		there, told := 0, 0
		for _, o := range objects {
			if o.Ref.Type != d.special {
				continue
			}
			there++
			if _, is := session.LookUp[any](o, d.property); is {
				told++
				continue
			}
			alone, err := t.read(ctx, o.Ref, d.property) // it may be withheld, or not set
			if err != nil {
				return refused(err)
			}
			if _, is := session.LookUp[any](alone, d.property); is {
				without = d.property + " of " + d.special
			}
		}
		if there > 0 {
			seen = append(seen, fmt.Sprintf("%s of %d of %d %ss", d.property, told, there, d.special))
		}
		facts[d.special] = count(there)
		facts[d.special+"Told"] = count(told)
	}
	if without != "" {
		return broken("a read of a type and of one that is derived from it does not tell "+without, "port groups, DRS or Storage DRS would seem not to be there").with(facts)
	}
	if len(seen) == 0 {
		return untold("there is no port group, cluster or datastore cluster in the datacenter", "").with(facts)
	}
	return held("told in one read with their base types: %s", strings.Join(seen, ", ")).with(facts)
}

// How vCenter answers a read of what the account may not see.
const (
	propertyWithheld = "NoPermission for each property"
	callRefused      = "NoPermission for the call"
	leftOut          = "left out"
	notFound         = "ManagedObjectNotFound"
	readable         = "readable"
)

// hidden is what hiddenVM lacks.
func hidden(t *trial, _ context.Context) string {
	if t.Hidden == "" {
		return "needs a VM that the account may not see (--hidden moRef)"
	}
	return ""
}

// hiddenVM reads a VM that the account may not see, alone and beside another one.
func (t *trial) hiddenVM(ctx context.Context) verdict {
	ref := inventory.VMRef(t.Hidden)
	alone, err := t.readHidden(ctx, ref, nil)
	if err != nil {
		return refused(err)
	}
	beside, err := t.readHidden(ctx, ref, []types.ObjectSpec{{Obj: t.vm}})
	if err != nil {
		return refused(err)
	}
	facts := Facts{"alone": word(alone), "besideAnother": word(beside)}
	switch {
	case alone == readable:
		return untold("the account may see "+t.Hidden, "name another one by --hidden").with(facts)
	case alone == notFound || alone == leftOut:
		return broken("a read of "+t.Hidden+" is answered as if it were not there: "+alone+" (is there such a VM?)", "members that the account may not see any more would seem to have vanished").with(facts)
	}
	return held("a read of it alone: %s; beside another VM: %s", alone, beside).with(facts)
}

func (t *trial) readHidden(ctx context.Context, ref types.ManagedObjectReference, others []types.ObjectSpec) (how string, err error) {
	spec := types.PropertyFilterSpec{ObjectSet: append(others, types.ObjectSpec{Obj: ref}), PropSet: []types.PropertySpec{{Type: ref.Type, PathSet: []string{"name", "config.instanceUuid"}}}}
	if len(others) > 0 {
		spec.ReportMissingObjectsInResults = types.NewBool(true)
	}
	how = leftOut
	err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		objects, err := session.ReadObjects(ctx, s, spec)
		for _, o := range objects {
			if o.Ref == ref {
				how = map[bool]string{true: propertyWithheld, false: readable}[o.Withheld]
			}
		}
		return err
	})
	switch {
	case vcfault.MissingObject(err) == ref:
		return notFound, nil
	case vcfault.Has[types.BaseNoPermission](err):
		return callRefused, nil
	}
	return how, err
}

// endSession ends the session, as vCenter does with one that is idle for long, and looks whether the next call says so, what was the
// session's is gone, and a new one takes over.
func (t *trial) endSession(ctx context.Context) verdict {
	old := t.s
	made, err := methods.CreatePropertyCollector(ctx, old.Vim, &types.CreatePropertyCollector{This: old.Vim.ServiceContent.PropertyCollector})
	if err != nil {
		return refused(err)
	}
	if _, err := methods.Logout(ctx, old.Vim, &types.Logout{This: *old.Vim.ServiceContent.SessionManager}); err != nil {
		return refused(err)
	}
	_, after := methods.GetCurrentTime(ctx, old.Vim)
	began := t.now()
	err = t.call(ctx, func(ctx context.Context, s *session.Session) error {
		t.s = s
		_, err := methods.GetCurrentTime(ctx, s.Vim)
		return err
	})
	if err != nil {
		return refused(err)
	}
	took := t.now().Sub(began)
	err = t.call(ctx, func(ctx context.Context, s *session.Session) error {
		_, err := methods.DestroyPropertyCollector(ctx, s.Vim, &types.DestroyPropertyCollector{This: made.Returnval})
		return err
	})
	switch {
	case err == nil:
		return broken("a property collector outlived its session", "what the server watches with would pile up in vCenter")
	case vcfault.MissingObject(err).Value == "":
		return refused(err)
	case !vcfault.NotAuthenticated(after):
		return broken("a call on a session that was ended is not answered by NotAuthenticated", "the server would not notice that its session is over")
	}
	return held("NotAuthenticated, its property collector is gone, and a new session came after %s", took.Round(time.Millisecond))
}

const (
	// quiet is how long the stream is asked to wait while nothing changes.
	quiet = 3 * time.Second
	// overstay is how long it may take for that before the server takes it for broken.
	overstay = 10 * time.Second
)

// silence looks whether a wait for changes ends when it is told to, though there are none.
func (t *trial) silence(ctx context.Context) verdict {
	seconds := int32(quiet / time.Second)
	for range 5 { // what changed before is told first
		began := t.now()
		waiting, cancel := context.WithTimeout(ctx, quiet+overstay)
		res, err := methods.WaitForUpdatesEx(waiting, t.view.s.Vim, &types.WaitForUpdatesEx{This: t.view.pc, Version: t.view.version, Options: &types.WaitOptions{MaxWaitSeconds: &seconds}})
		late := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		took := t.now().Sub(began)
		facts := Facts{"askedMs": millis(quiet), "tookMs": millis(took)}
		switch {
		case late:
			return broken(fmt.Sprintf("a wait of %s for changes had not ended after %s", quiet, took.Round(time.Second)), "the stream would be taken for broken whenever nothing changes, and opened again and again").with(facts)
		case err != nil:
			return refused(err)
		case res.Returnval == nil:
			return held("a wait of %s without changes ended after %s", quiet, took.Round(time.Millisecond)).with(facts)
		}
		t.view.take(res.Returnval)
	}
	return untold("something in the scratch folder kept changing", "run it again")
}

package check

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// vCenter's answers to a read of an object that the account is not allowed to see.
const (
	propertyWithheld = "NoPermission for each property"
	callRefused      = "NoPermission for the call"
	leftOut          = "left out"
	notFound         = "ManagedObjectNotFound"
	readable         = "readable"
)

// hidden returns what hiddenVM lacks.
func hidden(t *trial, _ context.Context) string {
	if t.Hidden == "" {
		return "needs a VM that the account is not allowed to see (--hidden moRef)"
	}
	return ""
}

// hiddenVM reads a VM that the account is not allowed to see.
func (t *trial) hiddenVM(ctx context.Context) outcome {
	how := leftOut
	err := t.v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		objects, err := session.ReadObjects(ctx, s, types.PropertyFilterSpec{ObjectSet: []types.ObjectSpec{{Obj: inventory.VMRef(t.Hidden)}},
			PropSet: []types.PropertySpec{{Type: session.VMType, PathSet: []string{"name", "config.instanceUuid"}}}})
		for _, o := range objects {
			how = map[bool]string{true: propertyWithheld, false: readable}[o.Withheld]
		}
		return err
	})
	switch {
	case vcfault.MissingObject(err).Value == t.Hidden:
		how = notFound
	case vcfault.Has[types.BaseNoPermission](err):
		how = callRefused
	case err != nil:
		return failedBy(err)
	}
	facts := Facts{"answer": word(how)}
	switch how {
	case readable:
		return inconclusive("the account can see "+t.Hidden, "name another one with --hidden").with(facts)
	case notFound, leftOut:
		return refuted("a read of "+t.Hidden+" returns the same as for a missing VM: "+how+" (check that it exists)", "members that the account can no longer see would seem to have vanished").with(facts)
	}
	return confirmed("%s", how).with(facts)
}

// endSession logs the session out, as vCenter does with idle ones, and checks that the next call reports it, that the session's objects are
// gone, and that a new session takes over.
func (t *trial) endSession(ctx context.Context) outcome {
	old := t.s
	made, err := methods.CreatePropertyCollector(ctx, old.Vim, &types.CreatePropertyCollector{This: old.Vim.ServiceContent.PropertyCollector})
	if err != nil {
		return failedBy(err)
	}
	if _, err := methods.Logout(ctx, old.Vim, &types.Logout{This: *old.Vim.ServiceContent.SessionManager}); err != nil {
		return failedBy(err)
	}
	_, after := methods.GetCurrentTime(ctx, old.Vim)
	began := t.now()
	err = t.call(ctx, func(ctx context.Context, s *session.Session) error {
		t.s = s
		_, err := methods.GetCurrentTime(ctx, s.Vim)
		return err
	})
	if err != nil {
		return failedBy(err)
	}
	took := t.now().Sub(began)
	err = t.call(ctx, func(ctx context.Context, s *session.Session) error {
		_, err := methods.DestroyPropertyCollector(ctx, s.Vim, &types.DestroyPropertyCollector{This: made.Returnval})
		return err
	})
	switch {
	case err == nil:
		return refuted("a property collector outlived its session", "the server's collectors and views would accumulate in vCenter")
	case vcfault.MissingObject(err).Value == "":
		return failedBy(err)
	case !vcfault.NotAuthenticated(after):
		return refuted("a call on an ended session does not return NotAuthenticated", "the server would not notice the end of its session")
	}
	return confirmed("NotAuthenticated, its property collector is gone, and a new session exists after %s", took.Round(time.Millisecond))
}

package check

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Options say what to look at besides the settings.
type Options struct {
	// Templates and Networks are names or inventory paths, as a VmGroup has them.
	Templates, Networks []string
	// Groups are looked at as if each were to be cloned.
	Groups []*v1alpha1.VmGroup
	// Deep has clones made, in a folder of their own that is removed at the end.
	Deep bool
	// Hidden is the moRef of a VM that the account may not see, for the deep check to look at how vCenter refuses it; it may be empty.
	Hidden string
	// GuestPatience is how long a guest may take to boot, and to shut down, together; 0: a minute.
	GuestPatience time.Duration
	// Found is called with each finding; Progress with what is done next, if that takes time. Both may be nil.
	Found    func(Finding)
	Progress func(string)
}

// checker looks at a vCenter as the server would use it, with the server's own code.
type checker struct {
	Options
	v     *vsphere.VCenter
	parts vsphere.Parts
	now   func() time.Time

	s  *session.Session
	at *inventory.Settings
	// absent reports whether the root folder of all groups is not there yet; at.root is then the folder it will be made in.
	absent bool
	// templates are those that were found.
	templates []foundTemplate
	// networks are those that were asked for, or that groups name, and that were found.
	networks []naming.Candidate
	// folders are those of groups that are elsewhere, as far down as they are there.
	folders []naming.Candidate
	// pools and datastores are those that the groups' clones go to.
	pools, datastores []types.ManagedObjectReference
	// asked reports whether vCenter said which privileges are held.
	asked    bool
	findings []Finding
}

// foundTemplate is a template as the inventory has it.
type foundTemplate struct {
	name, path, moRef, fingerprint string
	nature                         nature
}

// Run looks whether the server will work with this vCenter: the way there, the account, what the settings name, and,
// with Options.Deep, what vCenter does. It logs in and out by itself; the VCenter is not to be run, nor used afterwards.
func Run(ctx context.Context, v *vsphere.VCenter, o Options) []Finding {
	return newChecker(v, o).run(ctx)
}

func newChecker(v *vsphere.VCenter, o Options) *checker {
	c := &checker{Options: o, v: v, parts: v.Parts(), now: time.Now}
	c.GuestPatience = cmp.Or(c.GuestPatience, time.Minute)
	return c
}

func (c *checker) run(ctx context.Context) []Finding {
	defer c.parts.Client.Logout(context.WithoutCancel(ctx))
	for _, look := range []func(context.Context) bool{
		c.address, c.certificate, c.login, c.version, c.clock, c.sessions, c.places, c.inventory, c.firstAnswer, c.lookAtDRS, c.lookAtTemplates,
		c.lookAtNetworks, c.lookAtGroups, c.role, c.deep,
	} {
		if !look(ctx) {
			c.add("the rest", Skip, "not looked at, because of the failure before", "")
			break
		}
		if ctx.Err() != nil {
			c.add("the rest", Skip, "not looked at: stopped", "")
			break
		}
	}
	return c.findings
}

func (c *checker) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// call makes calls on the session, which is logged in again if it was lost.
func (c *checker) call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return c.parts.Client.Call(ctx, f)
}

// among lists what there is to choose from.
func among(names []string) string {
	if len(names) == 0 {
		return "there are none"
	}
	return "there are " + vcfault.Listing(names)
}

package check

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// Options select what to check in addition to the settings.
type Options struct {
	// Templates and Networks are names or inventory paths, as in a VmGroup.
	Templates, Networks []string
	// Groups are checked as if each were to be cloned.
	Groups []*v1alpha1.VmGroup
	// UserData returns what is known of a group's user data. If it is nil, no group's user data is known.
	UserData func(*v1alpha1.VmGroup) plan.Related
	// Orphans lists the objects that the server made for groups that are not in Existing. Existing must have all groups of the cluster.
	Orphans  bool
	Existing []*v1alpha1.VmGroup
	// Deep creates clones in a separate folder, which is removed at the end.
	Deep bool
	// Hidden is the moRef of a VM that the account is not allowed to see: the deep check reads it, to learn how vCenter denies access. It can
	// be empty.
	Hidden string
	// DRS lets the deep check add DRS groups and rules of its VMs to the cluster's configuration. The check removes them again.
	DRS bool
	// CanProbe reports whether the server is allowed to ask members at an address whether their service answers. If it is nil, the server is
	// not allowed to ask any member.
	CanProbe func(netip.Addr) bool
	// GuestTimeout limits the time for a guest to boot and to shut down, in total; 0: a minute.
	GuestTimeout time.Duration
	// Found is called with each finding, and Progress with the next step if it takes time. Both can be nil.
	Found    func(Finding)
	Progress func(string)
	// Begin is called with the name of each check and experiment, before it begins. It can be nil.
	Begin func(string)
}

// checks are all checks, in their order. Each adds its findings: the name, what was seen, the result, and what to do. If a base check fails,
// the checks after it are skipped.
var checks = []struct {
	name string
	ask  func(*checker, context.Context)
	base bool
}{
	{"address", (*checker).address, true},             // Does vCenter's name resolve, and is its port open?
	{"certificate", (*checker).certificate, true},     // Is vCenter's certificate trusted, and for how long?
	{"login", (*checker).login, true},                 // Is it a vCenter, and does it know the account?
	{"vCenter", (*checker).version, false},            // Is its version supported?
	{"simulator", (*checker).simulator, false},        // Is it govmomi's simulator?
	{"clock", (*checker).clock, false},                // Do vCenter's clock and this machine's agree?
	{"settings", (*checker).places, true},             // Do the datacenter, folder, resource pool and datastore of the settings exist?
	{"inventory", (*checker).inventory, true},         // What does the server see, and is something left of a deep check?
	{"stream of changes", (*checker).stream, false},   // How long does vCenter take to begin its reports of changes?
	{"DRS", (*checker).checkDRS, false},               // What chooses the hosts of members?
	{"template", (*checker).checkTemplates, false},    // Are the templates there, and what will their clones be like?
	{"network", (*checker).checkNetworks, false},      // Are the networks there, and do the hosts have them?
	{"group", (*checker).checkGroups, false},          // Is everything there that the groups need?
	{"orphans", (*checker).orphans, false},            // Which objects of the server belong to groups that don't exist any more?
	{"privileges", (*checker).checkPrivileges, false}, // Does the account have the least role, where it needs it?
	{"deep", (*checker).deep, false},                  // Does vCenter behave as the server assumes? See experiments.
}

// checker checks a vCenter with the server's own code.
type checker struct {
	Options
	v     *vsphere.VCenter
	parts vsphere.Parts
	now   func() time.Time

	s  *session.Session
	at *inventory.Settings
	// absent reports whether the root folder of all groups does not exist yet; at.Root is then its closest existing ancestor.
	absent bool
	// templates are the templates found.
	templates []foundTemplate
	// networks are the networks of the options and of the groups that vCenter has.
	networks []naming.Candidate
	// folders are the existing parts of the folders of groups with their own placement.
	folders []naming.Candidate
	// pools and datastores are the targets of the groups' clones.
	pools, datastores []types.ManagedObjectReference
	// encrypting reports whether a group has a storage policy that encrypts.
	encrypting bool
	// deploying reports whether a group's template is an OVF that the server has not deployed yet.
	deploying bool
	// asked reports whether vCenter returned the account's privileges.
	asked    bool
	findings []Finding
}

// Run checks whether the server will work with this vCenter: the endpoint, the account, the objects that the settings name, and, with
// Options.Deep, vCenter's behavior. It logs in and out itself; do not run the VCenter, nor use it afterwards.
func Run(ctx context.Context, v *vsphere.VCenter, o Options) []Finding {
	return newChecker(v, o).run(ctx)
}

func newChecker(v *vsphere.VCenter, o Options) *checker {
	c := &checker{Options: o, v: v, parts: v.Parts(), now: time.Now}
	if c.UserData == nil {
		c.UserData = plan.NoRelated
	}
	c.GuestTimeout = cmp.Or(c.GuestTimeout, time.Minute)
	return c
}

func (c *checker) run(ctx context.Context) []Finding {
	defer c.parts.Client.Logout(context.WithoutCancel(ctx))
	for _, x := range checks {
		before := len(c.findings)
		c.begin(x.name)
		x.ask(c, ctx)
		switch {
		case x.base && slices.ContainsFunc(c.findings[before:], Finding.failed):
			c.add("the rest", Skip, "not checked because of the failure above", "")
			return c.findings
		case ctx.Err() != nil:
			c.add("the rest", Skip, "not checked: stopped", "")
			return c.findings
		}
	}
	return c.findings
}

func (c *checker) begin(check string) {
	if c.Begin != nil {
		c.Begin(check)
	}
}

func (c *checker) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// call makes calls on the session and logs in again if the session was lost.
func (c *checker) call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return c.parts.Client.Call(ctx, f)
}

// keep appends those of some that a list does not have yet.
func keep[T comparable](all *[]T, some ...T) {
	for _, x := range some {
		if !slices.Contains(*all, x) {
			*all = append(*all, x)
		}
	}
}

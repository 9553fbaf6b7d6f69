package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Result says how a check ended.
type Result string

// The results of a check. A Warn keeps nothing from working, or something that not everybody uses; Skip: it could not, or
// need not, be looked at.
const (
	OK   Result = "OK"
	Warn Result = "WARN"
	Fail Result = "FAIL"
	Skip Result = "SKIP"
)

// Finding is what one check found.
type Finding struct {
	// Check names it, in a few words.
	Check  string `json:"check"`
	Result Result `json:"result"`
	// Seen is what there is.
	Seen string `json:"seen"`
	// Advice says what to do about it; empty if nothing is.
	Advice string `json:"advice,omitempty"`
}

// Options say what to look at besides the settings.
type Options struct {
	// Templates and Networks are names or inventory paths, as a VmGroup has them.
	Templates, Networks []string
	// Groups are looked at as if each were to be cloned.
	Groups []*v1alpha1.VmGroup
	// Deep has clones made, in a folder of their own that is removed at the end.
	Deep bool
	// GuestPatience is how long a guest may take to boot, and to shut down; 0: 3 minutes.
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
	c.GuestPatience = cmp.Or(c.GuestPatience, 3*time.Minute)
	return c
}

func (c *checker) run(ctx context.Context) []Finding {
	defer c.parts.Client.Logout(context.WithoutCancel(ctx))
	for _, look := range []func(context.Context) bool{
		c.address, c.certificate, c.login, c.version, c.clock, c.sessions, c.places, c.inventory, c.lookAtDRS, c.lookAtTemplates,
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

func (c *checker) add(check string, result Result, seen, advice string) {
	f := Finding{Check: check, Result: result, Seen: seen, Advice: advice}
	c.findings = append(c.findings, f)
	if c.Found != nil {
		c.Found(f)
	}
}

func (c *checker) ok(check, format string, args ...any) {
	c.add(check, OK, fmt.Sprintf(format, args...), "")
}

// failed reports an error in the words that a group's status would have for it: what is wrong, and what to do.
// That the user stopped the check is no failure of vCenter's.
func (c *checker) failed(check string, err error) {
	if errors.Is(err, context.Canceled) {
		c.add(check, Skip, "stopped", "")
		return
	}
	e := vcfault.Classify("", err)
	seen, advice, _ := strings.Cut(e.Message, ": ")
	if advice == "" {
		advice = "see docs/troubleshooting.md, " + e.Reason
	}
	c.add(check, Fail, fmt.Sprintf("%s (%s)", strings.TrimSuffix(seen, "."), e.Reason), advice)
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

package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/source"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// foundTemplate is a template in the inventory.
type foundTemplate struct {
	name, path, moRef, fingerprint string
	info                           templateInfo
}

// templateInfo is the part of a template that affects its clones: what a clone is built from (source.Source), and what it gets beside that.
type templateInfo struct {
	source.Source
	cpu, memory          int32
	addCPU, addMem       bool
	tpm, newTPM          bool // newTPM: each clone gets its own
	toolsOf              string
	disks, nics          int
	iso                  string // the file in a CD-ROM drive that is connected or connects at power-on
	manualMAC            string // of an adapter: it is set by hand
	space                int64  // of the disks, in bytes
	networks, datastores []types.ManagedObjectReference
}

// traits are what clones inherit of a template, and what each means: seen returns what the template has, after its name, or "".
var traits = []struct {
	check  string
	result Result
	seen   func(*templateInfo) string
	advice string
}{
	{"CD-ROM", Warn, func(x *templateInfo) string {
		return whenever(x.iso != "", "has %s connected in its CD-ROM drive", x.iso)
	}, "disconnect it in the template: clones need its datastore, and if the guest has locked the drive, disconnecting it raises a question for an operator (QuestionPending)"},
	// terraform-provider-vsphere#652, govmomi#1871
	{"resource limits", Warn, func(x *templateInfo) string {
		return whenever(limitOf(&x.CPU) > 0, "is limited to %d MHz, and so are its clones of any size", limitOf(&x.CPU))
	}, "remove the limit from the template"},
	{"resource limits", Warn, func(x *templateInfo) string {
		return whenever(limitOf(&x.Memory) > 0, "is limited to %d MiB of memory, and so are its clones of any size", limitOf(&x.Memory))
	}, "remove the limit from the template: a guest with more memory than its limit swaps"},
	// CAPV#2358
	{"reserved memory", Warn, func(x *templateInfo) string {
		return whenever(x.Locked, "reserves all its memory, and so do its clones")
	}, "unless intended, remove the reservation from the template: a clone powers on only on a host with that much free memory (ResourceLimit)"},
	// packer#11002
	{"MAC address", Warn, func(x *templateInfo) string {
		return whenever(x.manualMAC != "", "has an adapter whose MAC address %s is set by hand, so each clone that keeps the adapter has it, too", x.manualMAC)
	}, "set the adapter's MAC address to automatic, or let groups have networks (spec.networks), whose adapters get addresses of their own"},
	{"vTPM", Warn, func(x *templateInfo) string {
		return whenever(x.tpm && x.newTPM, "has a virtual TPM: each member gets a new one, without the template's secrets")
	}, "check that nothing in the template is sealed with its TPM, such as a disk encrypted by BitLocker: members could not open it"},
	{"vTPM", Warn, func(x *templateInfo) string {
		return whenever(x.tpm && !x.newTPM, "has a virtual TPM, whose secrets this vCenter copies to each member")
	}, "remove it from the template, or upgrade vCenter: from API version 8.0.0.1 on each member gets a new one"},
	{"vApp properties", OK, func(x *templateInfo) string {
		return whenever(x.VApp, "has some: members are cloned without them (privilege VApp.ApplicationConfig), because cloud-init prefers them to guestinfo; those of groups with a customizationSpec keep them")
	}, ""},
	{"user data", Warn, func(x *templateInfo) string {
		return whenever(x.Former.Configured, "was made from %s", formerOf(&x.Former))
	}, "remove codeconnect.vmworld.com.vmgroup.stamp and guestinfo.* from its advanced configuration: members are cloned without what the server wrote, but any other clone has that VM's " +
		"user data, with its secrets, and cloud-init runs it"},
	{"user data", Warn, func(x *templateInfo) string {
		return whenever(!x.Former.Configured && x.Former.UserData, "has user data of its own, which members of groups without userData get")
	}, "unless intended, remove guestinfo.userdata or guestinfo.ignition.config.data from its advanced configuration: anyone who can clone the template can read it"},
	{"hot-add", OK, func(x *templateInfo) string {
		how := map[bool]string{true: "while powered on", false: "with a power cycle"}
		return fmt.Sprintf("gets more CPUs %s, more memory %s", how[x.addCPU], how[x.addMem])
	}, ""},
	// Before a VM's first run, vCenter does not know whether its guest has VMware Tools.
	{"VMware Tools", Skip, func(x *templateInfo) string {
		return whenever(x.toolsOf == "", "has none that vCenter knows of before a clone runs (--deep shows them)")
	}, ""},
	{"VMware Tools", OK, func(x *templateInfo) string {
		return whenever(x.toolsOf != "" && x.toolsOf != toolsMissing, "has them: %s", x.toolsOf)
	}, ""},
	{"VMware Tools", Warn, func(x *templateInfo) string {
		return whenever(x.toolsOf == toolsMissing, "has none known to vCenter")
	}, "install open-vm-tools (if they are installed, ignore this: vCenter detects them when a clone runs). Without them, guests are powered off without a shutdown and report no address"},
}

const toolsMissing = string(types.VirtualMachineToolsVersionStatusGuestToolsNotInstalled)

// formerOf describes the VM that a template was made from.
func formerOf(x *source.Former) string {
	text := "a VM that a guest was configured for"
	if s := &x.Stamp; s.UID != "" {
		text = fmt.Sprintf("the member %s of %s, whose stamp it has", plan.Printable(plan.MemberName(s.Name, s.Ordinal)), plan.Printable(s.Namespace+"/"+s.Name))
	}
	if x.UserData {
		text += ", and has its user data"
	}
	return text
}

func whenever(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// checkTemplates looks up the templates and describes their clones.
func (c *checker) checkTemplates(ctx context.Context) {
	const check = "template"
	if len(c.Templates)+len(c.Groups) == 0 {
		c.add(check, Skip, "none given; "+among(c.parts.Inventory.TemplatesIn(c.parts.Inventory.OwnFolder())), "name a template with --template or a group with -f")
	}
	for _, name := range c.Templates {
		c.template(ctx, check, c.parts.Inventory.OwnFolder(), name, nil)
	}
}

// template finds a template like the server, for a group whose status recorded what names mean, and describes its clones once; nil, with a finding, if there is none.
func (c *checker) template(ctx context.Context, check string, at *inventory.GroupFolder, name string, recorded []v1alpha1.NamedObject) *foundTemplate {
	x, others, plain := c.parts.Inventory.FindTemplate(at, name, recorded)
	switch {
	case len(x.Paths) == 1:
	case len(x.Paths) > 1:
		c.add(check, Fail, fmt.Sprintf("several templates are named %q (%s)", name, vcfault.ReasonTemplateAmbiguous), "set spec.template to one of "+vcfault.Listing(x.Paths))
		return nil
	case plain != "":
		c.add(check, Fail, fmt.Sprintf("%q is a VM, not a template (%s)", name, vcfault.ReasonTemplateNotFound), "convert "+plain+" to a template, or name another")
		return nil
	case library.Is(name):
		found, pending, err := c.parts.Libraries.Resolve(ctx, name, x.Meant)
		if pending != nil && vcfault.Classify("", err).Reason == vcfault.ReasonLibraryReading {
			c.deploying = c.deploying || check != "template"
			c.ok(check, "the content library's item %q is an OVF: when a group names it, the server deploys it once, as the template %s; then it can be checked", name, pending.TemplateName())
			return nil
		}
		if err != nil {
			c.failed(check, err)
			return nil
		}
		if x = (plan.Template{MoRef: found.MoRef}); !c.parts.Inventory.Complete(&x) {
			c.add(check, Fail, fmt.Sprintf("the content library's item %q is the VM template %s, which vCenter does not show its user (%s)", name, found.MoRef, vcfault.ReasonLibraryItemUnusable),
				"grant System.Read and VirtualMachine.Provisioning.DeployTemplate on that template")
			return nil
		}
		x.Fingerprint = cmp.Or(found.Fingerprint, x.Fingerprint)
	default:
		c.add(check, Fail, fmt.Sprintf("there is no template %q in the datacenter %s (%s)", name, x.Datacenter, vcfault.ReasonTemplateNotFound), "name another; "+among(others))
		return nil
	}
	t := &foundTemplate{name: name, path: x.Paths[0], moRef: x.MoRef, fingerprint: x.Fingerprint}
	if !slices.ContainsFunc(c.templates, func(x foundTemplate) bool { return x.moRef == t.moRef }) {
		c.describe(ctx, t)
		c.templates = append(c.templates, *t)
	}
	return t
}

// among lists the alternatives.
func among(names []string) string {
	if len(names) == 0 {
		return "none exist"
	}
	return "available: " + vcfault.Listing(names)
}

// readTemplate reads what affects a template's clones.
func readTemplate(ctx context.Context, s *session.Session, vm types.ManagedObjectReference) (x templateInfo, err error) {
	if _, err := session.ReadProps(ctx, s, vm, x.properties()...); err != nil {
		return x, err
	}
	x.newTPM = s.Has(session.TPMPolicy)
	x.inspect()
	return x, nil
}

// properties are those that affect a template's clones.
func (x *templateInfo) properties() session.Properties {
	return append(x.Source.Properties(),
		session.To("config.hardware.numCPU", &x.cpu),
		session.To("config.hardware.memoryMB", &x.memory),
		session.To("config.cpuHotAddEnabled", &x.addCPU),
		session.To("config.memoryHotAddEnabled", &x.addMem),
		session.To("guest.toolsVersionStatus2", &x.toolsOf),
		session.Refs("network", &x.networks),
		session.Refs("datastore", &x.datastores),
	)
}

// hardware returns the virtual hardware version as vCenter has it, "vmx-19"; empty if unknown.
func (x *templateInfo) hardware() string {
	if x.Version == 0 {
		return ""
	}
	return fmt.Sprintf("vmx-%02d", x.Version)
}

// limitOf returns the limit of a resource; 0 if there is none.
func limitOf(x *types.ResourceAllocationInfo) int64 {
	if x.Limit == nil {
		return 0
	}
	return *x.Limit
}

// inspect finds what its devices say of a template.
func (x *templateInfo) inspect() {
	x.tpm, x.disks, x.nics = x.HasTPM(), len(x.Disks()), len(x.NICs())
	for _, disk := range x.Disks() {
		x.space += max(disk.CapacityInBytes, disk.CapacityInKB<<10)
	}
	for _, device := range x.NICs() {
		if card := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard(); strings.EqualFold(card.AddressType, string(types.VirtualEthernetCardMacTypeManual)) {
			x.manualMAC = card.MacAddress
		}
	}
	for _, device := range x.Devices {
		d := device.GetVirtualDevice()
		if iso, is := d.Backing.(*types.VirtualCdromIsoBackingInfo); is && d.Connectable != nil && (d.Connectable.Connected || d.Connectable.StartConnected) {
			x.iso = iso.FileName
		}
	}
}

// describe reports what a template's clones will be like.
func (c *checker) describe(ctx context.Context, t *foundTemplate) {
	const check = "template"
	err := c.call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		t.info, err = readTemplate(ctx, s, inventory.VMRef(t.moRef))
		return err
	})
	x := &t.info
	switch {
	case err != nil:
		c.failed(check, err)
		return
	case x.cpu == 0:
		c.add(check, Fail, t.path+": cannot read its configuration", "grant System.Read on it, and check that its host and datastore are accessible")
		return
	}
	seen := fmt.Sprintf("%s (%s): CPUs %d, memory %d MiB, disks %d (%d GiB), network adapters %d, %s", t.path, t.moRef, x.cpu, x.memory, x.disks, x.space>>30, x.nics, x.hardware())
	switch {
	case x.disks == 0:
		c.add(check, Warn, seen, "clones have no disk to boot from: check that this is the right template")
	case t.fingerprint == "":
		c.add(check, Warn, seen+"; its disks have no fingerprint", "the server will not notice a new version of the template with the same name; everything else works")
	default:
		c.ok(check, "%s", seen)
	}
	c.facts(Facts{"cpus": count(x.cpu), "memoryMB": count(x.memory), "disks": count(x.disks), "diskGB": count(x.space >> 30), "adapters": count(x.nics),
		"hardware": version(x.hardware()), "fingerprint": yes(t.fingerprint != ""), "vAppProperties": yes(x.VApp), "tools": word(x.toolsOf),
		"hotAddCPU": yes(x.addCPU), "hotAddMemory": yes(x.addMem)})
	for _, trait := range traits {
		if what := trait.seen(x); what != "" {
			c.add(trait.check, trait.result, t.name+" "+what, trait.advice)
		}
	}
}

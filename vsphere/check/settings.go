package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// places looks up the objects that the settings name, like the server, but creates nothing.
func (c *checker) places(ctx context.Context) (good bool) {
	err := session.Contained("the lookup of the settings", func() error {
		good = c.lookUpPlaces(ctx)
		return nil
	})
	if err != nil {
		c.failed("settings", err)
	}
	return good && err == nil
}

func (c *checker) lookUpPlaces(ctx context.Context) bool {
	l := inventory.NewLookup(c.s, c.parts.Config.Selection)
	at := l.Settings()
	err := l.Datacenter(ctx)
	if at.DatacenterPath != "" {
		c.ok("datacenter", "%s", at.DatacenterPath)
	}
	if err != nil {
		c.failed("datacenter", err)
		return false
	}
	good := c.root(ctx, l)
	if err := l.Pool(ctx); err != nil {
		c.failed("resource pool", err)
		good = false
	} else {
		c.ok("resource pool", "%s", at.PoolPath)
	}
	if err := l.Datastore(ctx); err != nil {
		c.failed("datastore", err)
		good = false
	} else if at.Datastore == nil {
		c.ok("datastore", "the template's own")
	} else {
		good = c.datastore(ctx, at) && good
	}
	c.at = at
	return good
}

// root looks up the root folder of all groups. The server would create missing parts of its path.
func (c *checker) root(ctx context.Context, l *inventory.Lookup) bool {
	missing, err := l.FindRoot(ctx)
	if err != nil {
		c.failed("folder", err)
		return false
	}
	at := l.Settings()
	if c.absent = len(missing) > 0; c.absent {
		c.ok("folder", "%s/%s does not exist yet; the server creates it", at.RootPath, strings.Join(missing, "/"))
	} else {
		c.ok("folder", "%s", at.RootPath)
	}
	return true
}

// datastore checks whether VMs can be placed on the datastore of the settings.
func (c *checker) datastore(ctx context.Context, at *inventory.Settings) bool {
	state, err := vsphere.ReadDatastore(ctx, c.s, at)
	switch {
	case err != nil:
		c.failed("datastore", err)
		return false
	case state == nil:
		c.add("datastore", Fail, "cannot read its state", "grant System.Read on it")
		return false
	case !state.Usable:
		c.add("datastore", Fail, state.Path+" is not accessible or in maintenance mode", "make it accessible in vCenter, or select another with --datastore")
		return false
	}
	c.ok("datastore", "%s, %d GB free", state.Path, state.Free>>30)
	return true
}

// inventory reads the inventory once, as the server does at startup.
func (c *checker) inventory(ctx context.Context) bool {
	c.parts.Inventory.SetSettings(c.at, nil)
	began := c.now()
	if err := c.parts.Reader.ScanNow(ctx); err != nil {
		c.failed("inventory", err)
		return false
	}
	n := c.parts.Inventory
	if c.absent { // placements are looked up by the whole path
		n.ForgetRoot()
	}
	n.SetKnown()
	has, took := n.Count(), c.now().Sub(began)
	seen := fmt.Sprintf("%d VMs and templates, %d folders and datacenters, read in %s; %d VMs have stamps of %d groups",
		has.Members+has.Unmanaged, has.Places, took.Round(1e6), has.Members, has.Groups)
	if old := n.FoldersNamed(scratchPrefix); len(old) > 0 {
		c.add("leftovers", Warn, "from a check that could not clean up: "+vcfault.Listing(old), "if no check is running, remove these folders and the VM in each by hand")
	}
	if has.StampsUnknown > 0 {
		c.add("inventory", Warn, fmt.Sprintf("%s; %d stamps of a newer version", seen, has.StampsUnknown), "a newer server manages groups here: do not run an older one on the same groups")
	} else {
		c.ok("inventory", "%s", seen)
	}
	c.facts(Facts{"vms": count(has.Members + has.Unmanaged), "places": count(has.Places), "members": count(has.Members), "groups": count(has.Groups),
		"unknownStamps": count(has.StampsUnknown), "readMs": millis(took)})
	return true
}

// firstAnswer opens the stream of changes like the server, which knows nothing before the first answer is complete.
func (c *checker) firstAnswer(ctx context.Context) bool {
	const check = "stream of changes"
	began, objects := c.now(), 0
	err := c.call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		objects, err = c.parts.Stream.FirstAnswer(ctx, s)
		return err
	})
	if err != nil {
		c.failed(check, err)
		return true
	}
	took := c.now().Sub(began)
	c.ok(check, "the first answer took %s for %d objects", took.Round(time.Millisecond), objects)
	c.facts(Facts{"objects": count(objects), "firstMs": millis(took)})
	return true
}

// checkTemplates looks up the templates and describes their clones.
func (c *checker) checkTemplates(ctx context.Context) bool {
	if len(c.Templates)+len(c.Groups) == 0 {
		c.add("template", Skip, "none given; "+among(c.parts.Inventory.TemplatesIn(c.parts.Inventory.OwnFolder())), "name a template with --template or a group with -f")
	}
	for _, name := range c.Templates {
		if t := c.template(ctx, "template", c.parts.Inventory.OwnFolder(), name); t != nil {
			c.keepTemplate(ctx, *t)
		}
	}
	return true
}

// keepTemplate records a template and describes its clones once.
func (c *checker) keepTemplate(ctx context.Context, t foundTemplate) {
	if !slices.ContainsFunc(c.templates, func(x foundTemplate) bool { return x.moRef == t.moRef }) {
		c.describe(ctx, &t)
		c.templates = append(c.templates, t)
	}
}

// template finds a template like the server; nil, with a finding, if there is none.
func (c *checker) template(ctx context.Context, check string, at *inventory.GroupFolder, name string) *foundTemplate {
	x, others, plain := c.parts.Inventory.FindTemplate(at, name)
	switch {
	case len(x.Paths) == 1:
		return &foundTemplate{name: name, path: x.Paths[0], moRef: x.MoRef, fingerprint: x.Fingerprint}
	case len(x.Paths) > 1:
		c.add(check, Fail, fmt.Sprintf("several templates are named %q (%s)", name, vcfault.ReasonTemplateAmbiguous), "use the inventory path of one of "+vcfault.Listing(x.Paths))
	case plain != "":
		c.add(check, Fail, fmt.Sprintf("%q is a VM, not a template (%s)", name, vcfault.ReasonTemplateNotFound), "convert "+plain+" to a template, or name another")
	case library.Is(name):
		return c.libraryTemplate(ctx, check, name)
	default:
		c.add(check, Fail, fmt.Sprintf("there is no template %q in the datacenter %s (%s)", name, x.Datacenter, vcfault.ReasonTemplateNotFound), "name another; "+among(others))
	}
	return nil
}

// libraryTemplate finds the VM template of an item of a content library.
func (c *checker) libraryTemplate(ctx context.Context, check, name string) *foundTemplate {
	moRef, err := c.parts.Libraries.Find(ctx, name)
	if err != nil {
		c.failed(check, err)
		return nil
	}
	x := plan.Template{MoRef: moRef}
	if !c.parts.Inventory.Complete(&x) {
		c.add(check, Fail, fmt.Sprintf("the content library's item %q is the VM template %s, which vCenter does not show its user (%s)", name, moRef, vcfault.ReasonLibraryItemUnusable),
			"grant System.Read and VirtualMachine.Provisioning.DeployTemplate on that template")
		return nil
	}
	return &foundTemplate{name: name, path: x.Paths[0], moRef: moRef, fingerprint: x.Fingerprint}
}

// templateInfo is the part of a template that affects its clones.
type templateInfo struct {
	cpu, memory      int32
	addCPU, addMem   bool
	vApp, tpm        bool
	version, toolsOf string
	disks, cards     int
	limits           []string // resource limits, as text
	locked           bool     // all memory is reserved
	iso              string   // the file in a CD-ROM drive that is connected or connects at power-on
	space            int64    // of the disks, in bytes
	networks         []types.ManagedObjectReference
	datastores       []types.ManagedObjectReference
}

func readTemplateInfo(ctx context.Context, s *session.Session, vm types.ManagedObjectReference) (*templateInfo, error) {
	o, err := session.ReadProps(ctx, s, vm, "config.hardware.numCPU", "config.hardware.memoryMB", "config.hardware.device",
		"config.cpuHotAddEnabled", "config.memoryHotAddEnabled", "config.version", "guest.toolsVersionStatus2", "network", "datastore", "config.vAppConfig",
		"config.cpuAllocation.limit", "config.memoryAllocation.limit", "config.memoryReservationLockedToMax")
	if err != nil {
		return nil, err
	}
	x := &templateInfo{
		cpu: session.Prop[int32](o, "config.hardware.numCPU"), memory: session.Prop[int32](o, "config.hardware.memoryMB"),
		addCPU: session.Prop[bool](o, "config.cpuHotAddEnabled"), addMem: session.Prop[bool](o, "config.memoryHotAddEnabled"),
		vApp:    vsphere.HasVAppProperties(o),
		version: session.Prop[string](o, "config.version"), toolsOf: session.Prop[string](o, "guest.toolsVersionStatus2"),
		networks:   session.Prop[types.ArrayOfManagedObjectReference](o, "network").ManagedObjectReference,
		datastores: session.Prop[types.ArrayOfManagedObjectReference](o, "datastore").ManagedObjectReference,
	}
	if mhz := session.Prop[int64](o, "config.cpuAllocation.limit"); mhz > 0 { // -1: unlimited
		x.limits = append(x.limits, fmt.Sprintf("%d MHz", mhz))
	}
	if mb := session.Prop[int64](o, "config.memoryAllocation.limit"); mb > 0 {
		x.limits = append(x.limits, fmt.Sprintf("%d MB of memory", mb))
	}
	x.locked = session.Prop[bool](o, "config.memoryReservationLockedToMax")
	for _, device := range session.Prop[types.ArrayOfVirtualDevice](o, "config.hardware.device").VirtualDevice {
		switch d := device.(type) {
		case *types.VirtualDisk:
			x.disks++
			x.space += max(d.CapacityInBytes, d.CapacityInKB<<10)
		case types.BaseVirtualEthernetCard:
			x.cards++
		case *types.VirtualTPM:
			x.tpm = true
		case *types.VirtualCdrom:
			iso, is := d.Backing.(*types.VirtualCdromIsoBackingInfo)
			if is && d.Connectable != nil && (d.Connectable.Connected || d.Connectable.StartConnected) {
				x.iso = iso.FileName
			}
		}
	}
	return x, nil
}

// describe reports what a template's clones will be like.
func (c *checker) describe(ctx context.Context, t *foundTemplate) {
	const check = "template"
	var x *templateInfo
	err := c.call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		x, err = readTemplateInfo(ctx, s, inventory.VMRef(t.moRef))
		return err
	})
	switch {
	case err != nil:
		c.failed(check, err)
		return
	case x.cpu == 0:
		c.add(check, Fail, t.path+": cannot read its configuration", "grant System.Read on it, and check that its host and datastore are accessible")
		return
	}
	t.info = *x
	seen := fmt.Sprintf("%s (%s): CPUs %d, memory %d MB, disks %d (%d GB), network adapters %d, %s", t.path, t.moRef, x.cpu, x.memory, x.disks, x.space>>30, x.cards, x.version)
	switch {
	case x.disks == 0:
		c.add(check, Warn, seen, "clones have no disk to boot from: check that this is the right template")
	case t.fingerprint == "":
		c.add(check, Warn, seen+"; its disks have no fingerprint", "the server will not notice a new version of the template with the same name; everything else works")
	default:
		c.ok(check, "%s", seen)
	}
	c.facts(Facts{"cpus": count(x.cpu), "memoryMB": count(x.memory), "disks": count(x.disks), "diskGB": count(x.space >> 30), "adapters": count(x.cards),
		"hardware": version(x.version), "fingerprint": yes(t.fingerprint != ""), "vAppProperties": yes(x.vApp), "tools": word(x.toolsOf),
		"hotAddCPU": yes(x.addCPU), "hotAddMemory": yes(x.addMem)})
	if x.iso != "" {
		c.add("CD-ROM", Warn, fmt.Sprintf("%s: %s is connected in its CD-ROM drive", t.name, x.iso),
			"disconnect it in the template: clones need its datastore, and if the guest has locked the drive, disconnecting it raises a question for an operator (QuestionPending)")
	}
	c.resources(t, x)
	c.tpm(t, x)
	hot := map[bool]string{true: "while powered on", false: "with a power cycle"}
	if x.vApp {
		c.ok("vApp properties", "%s has some: members are cloned without them (privilege VApp.ApplicationConfig), because cloud-init prefers them to guestinfo; those of groups with a customizationSpec keep them", t.name)
	}
	c.ok("hot-add", "%s: more CPUs %s, more memory %s", t.name, hot[x.addCPU], hot[x.addMem])
	c.tools(t, x)
}

// resources warns about settings other than the size that clones inherit: limits (terraform-provider-vsphere#652, govmomi#1871) and
// reserved memory (CAPV#2358).
func (c *checker) resources(t *foundTemplate, x *templateInfo) {
	if len(x.limits) > 0 {
		c.add("resource limits", Warn, fmt.Sprintf("%s is limited to %s, and so are its clones of any size", t.name, strings.Join(x.limits, " and ")),
			"remove the limit from the template: a guest with more memory than its limit swaps")
	}
	if x.locked {
		c.add("reserved memory", Warn, t.name+" reserves all its memory, and so do its clones",
			"unless intended, remove the reservation from the template: a clone powers on only on a host with that much free memory (ResourceLimit)")
	}
}

// tpm warns of a virtual TPM, which has the template's secrets.
func (c *checker) tpm(t *foundTemplate, x *templateInfo) {
	switch {
	case !x.tpm:
	case c.s.Has(session.TPMPolicy):
		c.add("vTPM", Warn, t.name+" has a virtual TPM: each member gets a new one, without the template's secrets",
			"check that nothing in the template is sealed with its TPM, such as a disk encrypted by BitLocker: members could not open it")
	default:
		c.add("vTPM", Warn, t.name+" has a virtual TPM, whose secrets this vCenter copies to each member",
			"remove it from the template, or upgrade vCenter: from API version 8.0.0.1 on each member gets a new one")
	}
}

// tools reports whether the template has VMware Tools. vCenter does not know before the first run of a VM.
func (c *checker) tools(t *foundTemplate, x *templateInfo) {
	const check = "VMware Tools"
	switch types.VirtualMachineToolsVersionStatus(x.toolsOf) {
	case types.VirtualMachineToolsVersionStatusGuestToolsNotInstalled:
		c.add(check, Warn, t.name+": none known to vCenter", "install open-vm-tools (if they are installed, ignore this: vCenter detects them when a clone runs). Without them, guests are powered off without a shutdown and report no address")
	case "":
		if c.Deep {
			return
		}
		c.add(check, Skip, t.name+": unknown before a clone runs (use --deep)", "")
	default:
		c.ok(check, "%s: %s", t.name, x.toolsOf)
	}
}

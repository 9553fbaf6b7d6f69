package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// places looks up what the settings name, as the server does, but makes nothing.
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

// root goes down to the root folder of all groups. Where it ends, the server would make the rest.
func (c *checker) root(ctx context.Context, l *inventory.Lookup) bool {
	missing, err := l.FindRoot(ctx)
	if err != nil {
		c.failed("folder", err)
		return false
	}
	at := l.Settings()
	if c.absent = len(missing) > 0; c.absent {
		c.ok("folder", "%s/%s is not there yet; the server makes it", at.RootPath, strings.Join(missing, "/"))
	} else {
		c.ok("folder", "%s", at.RootPath)
	}
	return true
}

// datastore looks whether VMs can be put on the one that the settings name.
func (c *checker) datastore(ctx context.Context, at *inventory.Settings) bool {
	state, err := vsphere.ReadDatastore(ctx, c.s, at)
	switch {
	case err != nil:
		c.failed("datastore", err)
		return false
	case state == nil:
		c.add("datastore", Fail, "its state cannot be read", "grant System.Read on it")
		return false
	case !state.Usable:
		c.add("datastore", Fail, state.Path+" is not accessible, or in maintenance", "make it accessible in vCenter, or name another with --datastore")
		return false
	}
	c.ok("datastore", "%s, %d GB free", state.Path, state.Free>>30)
	return true
}

// inventory reads everything once, as the server does at its start.
func (c *checker) inventory(ctx context.Context) bool {
	c.parts.Inventory.SetSettings(c.at, nil)
	began := c.now()
	if err := c.parts.Reader.ScanNow(ctx); err != nil {
		c.failed("inventory", err)
		return false
	}
	n := c.parts.Inventory
	if c.absent { // what is read of placements goes by the path, and not by what is there of it
		n.ForgetRoot()
	}
	n.SetKnown()
	has, took := n.Count(), c.now().Sub(began)
	seen := fmt.Sprintf("%d VMs and templates, %d folders and datacenters, read in %s; %d VMs bear stamps of %d groups",
		has.Members+has.Unmanaged, has.Places, took.Round(1e6), has.Members, has.Groups)
	if old := n.FoldersNamed(scratchPrefix); len(old) > 0 {
		c.add("leftovers", Warn, "of a check that could not clean up: "+vcfault.Listing(old), "remove these folders by hand, with the VM in each, if no check is under way")
	}
	if has.StampsUnknown > 0 {
		c.add("inventory", Warn, fmt.Sprintf("%s; %d of a newer version", seen, has.StampsUnknown), "a newer server works here: run no older one on the same groups")
	} else {
		c.ok("inventory", "%s", seen)
	}
	c.facts(Facts{"vms": count(has.Members + has.Unmanaged), "places": count(has.Places), "members": count(has.Members), "groups": count(has.Groups),
		"unknownStamps": count(has.StampsUnknown), "readMs": millis(took)})
	return true
}

// firstAnswer opens the stream of changes as the server does: until vCenter has told of everything once, nothing is known.
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
	c.ok(check, "its first answer came after %s, for %d objects", took.Round(time.Millisecond), objects)
	c.facts(Facts{"objects": count(objects), "firstMs": millis(took)})
	return true
}

// lookAtTemplates looks for the templates, and at what a clone of each will be like.
func (c *checker) lookAtTemplates(ctx context.Context) bool {
	if len(c.Templates)+len(c.Groups) == 0 {
		c.add("template", Skip, "none was named; "+among(c.parts.Inventory.TemplatesIn(c.parts.Inventory.OwnFolder())), "name one by --template, or a group by -f")
	}
	for _, name := range c.Templates {
		if t := c.template("template", c.parts.Inventory.OwnFolder(), name); t != nil {
			c.keepTemplate(ctx, *t)
		}
	}
	return true
}

// keepTemplate says once what a template's clones will be like.
func (c *checker) keepTemplate(ctx context.Context, t foundTemplate) {
	if !slices.ContainsFunc(c.templates, func(x foundTemplate) bool { return x.moRef == t.moRef }) {
		c.shape(ctx, &t)
		c.templates = append(c.templates, t)
	}
}

// template finds one, in the way of the server; nil if it was not found, which is then told.
func (c *checker) template(check string, at *inventory.GroupFolder, name string) *foundTemplate {
	x, others, plain := c.parts.Inventory.FindTemplate(at, name)
	switch {
	case len(x.Paths) == 1:
		return &foundTemplate{name: name, path: x.Paths[0], moRef: x.MoRef, fingerprint: x.Fingerprint}
	case len(x.Paths) > 1:
		c.add(check, Fail, fmt.Sprintf("%q is the name of several (%s)", name, vcfault.ReasonTemplateAmbiguous), "give the inventory path of one of "+vcfault.Listing(x.Paths))
	case plain != "":
		c.add(check, Fail, fmt.Sprintf("%q is a VM and no template (%s)", name, vcfault.ReasonTemplateNotFound), "mark "+plain+" as a template, or name another")
	default:
		c.add(check, Fail, fmt.Sprintf("there is no template %q in the datacenter %s (%s)", name, x.Datacenter, vcfault.ReasonTemplateNotFound), "name another: "+among(others))
	}
	return nil
}

// nature is what matters of a template for its clones.
type nature struct {
	cpu, memory      int32
	addCPU, addMem   bool
	vApp             bool
	version, toolsOf string
	disks, cards     int
	limits           []string // what a clone may use at most, whatever its size, in words
	locked           bool     // all memory is reserved
	iso              string   // the file in a CD-ROM drive that is connected, or will be at power-on
	space            int64    // of the disks, in bytes
	networks         []types.ManagedObjectReference
	datastores       []types.ManagedObjectReference
}

func readNature(ctx context.Context, s *session.Session, vm types.ManagedObjectReference) (*nature, error) {
	o, err := session.ReadProps(ctx, s, vm, "config.hardware.numCPU", "config.hardware.memoryMB", "config.hardware.device",
		"config.cpuHotAddEnabled", "config.memoryHotAddEnabled", "config.version", "guest.toolsVersionStatus2", "network", "datastore", "config.vAppConfig",
		"config.cpuAllocation.limit", "config.memoryAllocation.limit", "config.memoryReservationLockedToMax")
	if err != nil {
		return nil, err
	}
	x := &nature{
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
		case *types.VirtualCdrom:
			iso, is := d.Backing.(*types.VirtualCdromIsoBackingInfo)
			if is && d.Connectable != nil && (d.Connectable.Connected || d.Connectable.StartConnected) {
				x.iso = iso.FileName
			}
		}
	}
	return x, nil
}

// shape says what a template's clones will be like.
func (c *checker) shape(ctx context.Context, t *foundTemplate) {
	const check = "template"
	var x *nature
	err := c.call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		x, err = readNature(ctx, s, inventory.VMRef(t.moRef))
		return err
	})
	switch {
	case err != nil:
		c.failed(check, err)
		return
	case x.cpu == 0:
		c.add(check, Fail, t.path+": its configuration cannot be read", "grant System.Read on it, and see whether its host and datastore can be reached")
		return
	}
	t.nature = *x
	seen := fmt.Sprintf("%s (%s): CPUs %d, memory %d MB, disks %d (%d GB), network adapters %d, %s", t.path, t.moRef, x.cpu, x.memory, x.disks, x.space>>30, x.cards, x.version)
	switch {
	case x.disks == 0:
		c.add(check, Warn, seen, "its clones have no disk to boot from: is it the right one?")
	case t.fingerprint == "":
		c.add(check, Warn, seen+"; its disks have no fingerprint", "that it was republished under its name will not be noticed; nothing else is lost")
	default:
		c.ok(check, "%s", seen)
	}
	c.facts(Facts{"cpus": count(x.cpu), "memoryMB": count(x.memory), "disks": count(x.disks), "diskGB": count(x.space >> 30), "adapters": count(x.cards),
		"hardware": version(x.version), "fingerprint": yes(t.fingerprint != ""), "vAppProperties": yes(x.vApp), "tools": word(x.toolsOf),
		"hotAddCPU": yes(x.addCPU), "hotAddMemory": yes(x.addMem)})
	if x.iso != "" {
		c.add("CD-ROM", Warn, fmt.Sprintf("%s: %s is connected in its CD-ROM drive", t.name, x.iso),
			"disconnect it in the template: its clones need that datastore, and a guest that has locked the drive makes the VM ask an operator before it is disconnected (QuestionPending)")
	}
	c.resources(t, x)
	hot := map[bool]string{true: "while it runs", false: "by a power cycle"}
	if x.vApp {
		c.ok("vApp properties", "%s has some: members of groups with userData or networks are cloned without them (privilege VApp.ApplicationConfig), since cloud-init prefers them; others keep them", t.name)
	}
	c.ok("hot-add", "%s: more CPUs %s, more memory %s", t.name, hot[x.addCPU], hot[x.addMem])
	c.tools(t, x)
}

// resources warns of what clones inherit from a template beside its size: limits (terraform-provider-vsphere#652, govmomi#1871), and
// memory that is reserved (CAPV#2358).
func (c *checker) resources(t *foundTemplate, x *nature) {
	if len(x.limits) > 0 {
		c.add("resource limits", Warn, fmt.Sprintf("%s is limited to %s, and so are its clones, whatever their size", t.name, strings.Join(x.limits, " and ")),
			"remove the limit in the template: a guest that has more memory than its limit swaps")
	}
	if x.locked {
		c.add("reserved memory", Warn, t.name+" reserves all its memory, and so do its clones",
			"unless you want that, take the reservation out of the template: a clone is powered on only where so much memory is free (ResourceLimit)")
	}
}

// tools reports whether the guests of a template's clones are known to have VMware Tools. A template that never ran says nothing
// of them.
func (c *checker) tools(t *foundTemplate, x *nature) {
	const check = "VMware Tools"
	switch types.VirtualMachineToolsVersionStatus(x.toolsOf) {
	case types.VirtualMachineToolsVersionStatusGuestToolsNotInstalled:
		c.add(check, Warn, t.name+": vCenter knows of none in it", "install open-vm-tools (if they are there, take no notice: vCenter learns it when a clone runs). Without, guests are powered off without being asked, and have no address")
	case "":
		if c.Deep {
			return
		}
		c.add(check, Skip, t.name+": not known before a clone runs (--deep shows it)", "")
	default:
		c.ok(check, "%s: %s", t.name, x.toolsOf)
	}
}

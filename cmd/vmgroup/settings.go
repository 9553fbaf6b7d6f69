package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// settings are those that more than one command has: which vCenter, where in it, and how to log.
type settings struct {
	vcenter   vsphere.Config
	adoptFrom []string
	// guestNetworks are those of --guest-networks.
	guestNetworks []string
	simulator     bool
	sim           vcsim.Config
	// simulatorForAll lets others reach the embedded vCenter: whoever does may do everything in it, as any user.
	simulatorForAll bool
	logLevel        string
	logFormat       string
}

// Format keeps the password out of whatever prints the settings.
func (s settings) Format(f fmt.State, verb rune) { s.vcenter.Format(f, verb) }

func (s *settings) flags(c *cobra.Command) {
	f, v := c.Flags(), &s.vcenter
	add := func(p *string, name, variable, value, usage string) {
		f.StringVar(p, name, value, usage)
		env(f, name, variable)
	}
	add(&v.Host, "host", "VC_HOST", "", "vCenter: a host name, host:port, or an https URL")
	add(&v.User, "user", "VC_USER", "", "vCenter user")
	add(&v.Password, "password", "VC_PASS", "", "vCenter password (better by its variable, or by --password-file)")
	add(&v.UserFile, "user-file", "VC_USER_FILE", "", "file that holds the user; read again at each login")
	add(&v.PasswordFile, "password-file", "VC_PASS_FILE", "", "file that holds the password; read again at each login")
	add(&v.CAFile, "ca-file", "VC_CA_FILE", "", "PEM file of the certificate authorities that vCenter's certificate may be signed by; read again at each handshake")
	add(&v.Thumbprint, "thumbprint", "VC_THUMBPRINT", "", "SHA-256 thumbprint of vCenter's certificate (AA:BB:…), instead of an authority")
	f.BoolVar(&v.Insecure, "insecure", false, "do not verify vCenter's certificate")
	env(f, "insecure", "VC_INSECURE")
	add(&v.Datacenter, "datacenter", "VC_DATACENTER", "", "datacenter, by name or inventory path (default: the only one)")
	add(&v.Folder, "folder", "VC_FOLDER", "vm-operator", "root folder of all groups, below the datacenter's VM folder; made if missing")
	add(&v.Pool, "pool", "VC_POOL", "", "resource pool or cluster, by name or inventory path (default: the only cluster's)")
	add(&v.Datastore, "datastore", "VC_DATASTORE", "", "datastore, by name or inventory path (default: the template's)")
	add(&v.ClusterID, "cluster-id", "VMGROUP_CLUSTER_ID", "", "name of this Kubernetes cluster, written into the VMs' stamps: for people to read, and needed to adopt VMs of a former incarnation of a group (restored from a backup, say)")
	// What is in a list is split at commas, in the flag as in its variable.
	f.StringSliceVar(&s.adoptFrom, "adopt-from", nil, "`namespace=/DC0/vm/folder`: VMs in that folder, or below it, may be adopted by groups of that namespace; * for any namespace; repeat it, or put commas between several (a comma in a name is %2c)")
	env(f, "adopt-from", "VMGROUP_ADOPT_FROM")
	f.StringSliceVar(&s.guestNetworks, "guest-networks", nil, "`10.0.0.0/8`: networks that addresses may be in which guests report, for EndpointSlices, /sd and the status; repeat it, or put commas between several (default: all)")
	env(f, "guest-networks", "VMGROUP_GUEST_NETWORKS")
	f.BoolVar(&s.simulator, "simulator", false, "use an embedded vCenter (govmomi's simulator) with two templates, vm-operator-template and vm-operator-template-2")
	env(f, "simulator", "VMGROUP_SIMULATOR")
	f.DurationVar(&s.sim.Latency.Clone, "simulator-clone-time", time.Second, "how long a clone takes in the embedded vCenter")
	env(f, "simulator-clone-time", "VMGROUP_SIMULATOR_CLONE_TIME")
	f.DurationVar(&s.sim.Latency.Power, "simulator-power-time", time.Second, "how long powering on or off takes in the embedded vCenter")
	env(f, "simulator-power-time", "VMGROUP_SIMULATOR_POWER_TIME")
	f.DurationVar(&s.sim.Guest.Boot, "simulator-boot-time", time.Second, "how long a guest takes to boot in the embedded vCenter, until its tools run and it has an address")
	env(f, "simulator-boot-time", "VMGROUP_SIMULATOR_BOOT_TIME")
	add(&s.sim.Listen, "simulator-listen", "VMGROUP_SIMULATOR_LISTEN", "127.0.0.1:0", "address of the embedded vCenter's SDK, for govc; one that others reach only with --allow-unauthenticated of serve")
	add(&s.logLevel, "log-level", "VMGROUP_LOG_LEVEL", "info", "debug, info, warn or error")
	add(&s.logFormat, "log-format", "VMGROUP_LOG_FORMAT", "json", "json, or console for people")
	complete(c, "adopt-from", "*=/")
	complete(c, "log-level", "debug", "info", "warn", "error")
	complete(c, "log-format", "json", "console")
}

// complete offers a flag's values to the shell.
func complete(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist, or has this already: a mistake in this program
	}
}

// networks reads those of --guest-networks.
func networks(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || p != p.Masked() {
			return nil, usageError{fmt.Errorf("--guest-networks (VMGROUP_GUEST_NETWORKS): %q is no network: give one such as 10.0.0.0/8 or fd00::/8", text)}
		}
		all = append(all, p)
	}
	return all, nil
}

// adoptRules reads the rules of --adopt-from.
func adoptRules(texts []string) ([]inventory.AdoptRule, error) {
	var rules []inventory.AdoptRule
	for _, text := range texts {
		rule, err := inventory.ParseAdoptRule(strings.TrimSpace(text))
		if err != nil {
			return nil, usageError{fmt.Errorf("--adopt-from (VMGROUP_ADOPT_FROM): %w", err)}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// logger makes the log, which goes to standard error.
func (s *settings) logger(w io.Writer) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(s.logLevel)
	if err != nil || level < zerolog.DebugLevel || level > zerolog.ErrorLevel {
		return zerolog.Nop(), usageError{fmt.Errorf("--log-level %q: it may be debug, info, warn or error", s.logLevel)}
	}
	switch s.logFormat {
	case "json":
		w = jsonLines{w}
	case "console":
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != "" || !terminal(w),
			FormatMessage: func(message any) string { // which it would write as it is; fields are quoted
				text, _ := message.(string)
				return plan.Printable(text)
			}}
	default:
		return zerolog.Nop(), usageError{fmt.Errorf("--log-format %q: it may be json or console", s.logFormat)}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger(), nil
}

// terminal tells whether people read what is written there.
func terminal(w io.Writer) bool {
	f, isFile := w.(*os.File)
	if !isFile {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// simulatorStaysHere refuses an address of the embedded vCenter that others can reach, unless told so.
func (s *settings) simulatorStaysHere(log zerolog.Logger) error {
	address, err := net.ResolveTCPAddr("tcp", s.sim.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("--simulator-listen %s: %w", s.sim.Listen, err)
	case address.IP.IsLoopback() || s.sim.Listen == "":
	case !s.simulatorForAll:
		return fmt.Errorf("--simulator-listen %s can be reached by others, and takes any user and password: give an address of this machine alone, such as 127.0.0.1:8989 (serve: or say --allow-unauthenticated)", s.sim.Listen)
	default:
		log.Warn().Msg("--allow-unauthenticated: whoever reaches the embedded vCenter may do everything in it")
	}
	return nil
}

// simulatorUUID is the identity of every embedded vCenter: after a restart, groups of the one before find their
// members gone, and have them made anew, instead of waiting for a vCenter that never comes back.
const simulatorUUID = "5171a7ed-0000-4000-8000-000000000001"

// connect makes the vCenter side; with --simulator it starts the embedded vCenter first, which close ends.
func (s *settings) connect(log zerolog.Logger) (vc *vsphere.VCenter, closeSimulator func(), err error) {
	closeSimulator = func() {}
	if s.vcenter.AdoptFrom, err = adoptRules(s.adoptFrom); err != nil {
		return nil, nil, err
	}
	if s.vcenter.GuestNetworks, err = networks(s.guestNetworks); err != nil {
		return nil, nil, err
	}
	if s.simulator {
		if s.vcenter.Host != "" {
			return nil, nil, usageError{errors.New("--simulator and --host (VC_HOST): give one of them")} // a URL may hold a password
		}
		if err := s.simulatorStaysHere(log); err != nil {
			return nil, nil, usageError{err}
		}
		s.sim.Templates, s.sim.InstanceUUID = []string{"vm-operator-template", "vm-operator-template-2"}, simulatorUUID
		s.sim.Guest.Tools = true
		sim, err := vcsim.Start(s.sim)
		if err != nil {
			return nil, nil, fmt.Errorf("start the embedded vCenter: %w", err)
		}
		closeSimulator = func() {
			if err := sim.Close(); err != nil {
				log.Warn().Err(err).Msg("the embedded vCenter did not close well")
			}
		}
		url := sim.URL()
		password, _ := url.User.Password()
		s.vcenter.Host, s.vcenter.User, s.vcenter.Password = url.Host, url.User.Username(), password
		s.vcenter.UserFile, s.vcenter.PasswordFile, s.vcenter.CAFile, s.vcenter.Insecure = "", "", "", false
		s.vcenter.Thumbprint = sim.ThumbprintSHA256()
		log.Info().Str("sdk", url.Host).Str("look_in", "GOVC_INSECURE=1 GOVC_URL="+url.String()+" govc find /DC0/vm").Msg("embedded vCenter: nothing in it outlives this process")
	} else if s.vcenter.Host == "" {
		return nil, nil, usageError{fmt.Errorf("--host (VC_HOST) is not set: name the vCenter, or try --simulator")}
	}
	if s.vcenter.Insecure {
		log.Warn().Msg("--insecure: vCenter's certificate is not verified, so anybody on the way can read its password; use --ca-file or --thumbprint")
	}
	s.vcenter.Log = log
	s.vcenter.UserAgent = "vmgroup/" + version
	vc, err = vsphere.New(s.vcenter)
	if err != nil {
		closeSimulator()
		return nil, nil, usageError{err}
	}
	return vc, closeSimulator, nil
}

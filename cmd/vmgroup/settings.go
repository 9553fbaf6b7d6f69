package main

import (
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/probe"
	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// settings are shared by several commands: which vCenter, where in it, and how to log.
type settings struct {
	vcenter   vsphere.Config
	adoptFrom []string
	// guestNetworks is the value of --guest-networks.
	guestNetworks []string
	// probeNetworks is the value of --probe-networks; probe is made from it.
	probeNetworks []string
	probe         probe.Config
	simulator     bool
	sim           vcsim.Config
	// simulatorForAll allows an address of the embedded vCenter that others can reach, although it accepts any user and password.
	simulatorForAll bool
	logLevel        string
	logFormat       string
}

// Format keeps the password out of any output of the settings.
func (s settings) Format(f fmt.State, verb rune) { s.vcenter.Format(f, verb) }

func (s *settings) flags(c *cobra.Command) {
	f, v := c.Flags(), &s.vcenter
	add := func(p *string, name, variable, value, usage string) {
		f.StringVar(p, name, value, usage)
		env(f, name, variable)
	}
	add(&v.Host, "host", "VC_HOST", "", "vCenter: a host name, host:port, or an https URL")
	add(&v.User, "user", "VC_USER", "", "vCenter user")
	add(&v.Password, "password", "VC_PASS", "", "vCenter password (its variable or --password-file is safer)")
	add(&v.UserFile, "user-file", "VC_USER_FILE", "", "file with the user; read at each login")
	add(&v.PasswordFile, "password-file", "VC_PASS_FILE", "", "file with the password; read at each login")
	add(&v.CAFile, "ca-file", "VC_CA_FILE", "", "PEM file of the CAs that can sign vCenter's certificate; read at each handshake")
	add(&v.Thumbprint, "thumbprint", "VC_THUMBPRINT", "", "SHA-256 thumbprint of vCenter's certificate (AA:BB:…), instead of a CA")
	f.BoolVar(&v.Insecure, "insecure", false, "do not verify vCenter's certificate")
	env(f, "insecure", "VC_INSECURE")
	add(&v.Datacenter, "datacenter", "VC_DATACENTER", "", "datacenter, by name or inventory path (default: the only one)")
	add(&v.Folder, "folder", "VC_FOLDER", "vm-operator", "root folder of all groups, below the datacenter's VM folder; created if missing")
	add(&v.Pool, "pool", "VC_POOL", "", "resource pool or cluster, by name or inventory path (default: the only cluster's)")
	add(&v.Datastore, "datastore", "VC_DATASTORE", "", "datastore, by name or inventory path (default: the template's)")
	add(&v.LibraryNetwork, "library-network", "VC_LIBRARY_NETWORK", "", "network, by name or inventory path, for adapters of OVFs of content libraries on networks that the hosts don't have")
	f.BoolVar(&v.AcceptEULAs, "accept-eulas", false, "accept the license agreements of the OVFs of content libraries that groups name")
	env(f, "accept-eulas", "VC_ACCEPT_EULAS")
	section(f, "vCenter")
	f.StringVar(&v.ClusterID, "cluster-id", "", "name of this Kubernetes cluster in the VMs' stamps: it shows users which cluster a VM belongs to, and is required to adopt VMs of a former group of the same name (such as a group restored from a backup)")
	// Lists are split at commas, in the flag as in its variable.
	f.StringSliceVar(&s.adoptFrom, "adopt-from", nil, "`namespace=/DC0/vm/folder`: groups of that namespace can adopt VMs in that folder, or below it; * for any namespace; repeat the flag, or separate several with commas (a comma in a name is %2c)")
	f.StringSliceVar((*[]string)(&v.ExtraKeys), "extra-config", nil, "`svga.*,disk.EnableUUID`: keys that spec.extraConfig can set, with * for any text; repeat the flag, or separate several with commas (default: none)")
	f.StringSliceVar((*[]string)(&v.PCIDevices), "pci-devices", nil, "`10de:1eb8,grid_t4-*`: devices that spec.hardware.pciDevices can name, with * for any text; repeat the flag, or separate several with commas (default: none)")
	f.StringSliceVar(&s.guestNetworks, "guest-networks", nil, "`10.0.0.0/8`: networks whose guest addresses are published in EndpointSlices, /sd and the status; repeat the flag, or separate several with commas (default: all)")
	f.StringSliceVar(&s.probeNetworks, "probe-networks", nil, "`10.0.0.0/8`: networks in which the server can probe members (spec.readiness.tcpSocket, httpGet); repeat the flag, or separate several with commas (default: none)")
	section(f, "Groups and their guests")
	f.BoolVar(&s.simulator, "simulator", false, "use an embedded vCenter (govmomi's simulator) with two templates, vm-operator-template and vm-operator-template-2")
	f.DurationVar(&s.sim.Latency.Clone, "simulator-clone-time", time.Second, "how long a clone takes in the embedded vCenter")
	f.DurationVar(&s.sim.Latency.Power, "simulator-power-time", time.Second, "how long a power-on or power-off takes in the embedded vCenter")
	f.DurationVar(&s.sim.Guest.Boot, "simulator-boot-time", time.Second, "how long a guest takes in the embedded vCenter until its tools run and it has an address")
	f.StringVar(&s.sim.Listen, "simulator-listen", "127.0.0.1:0", "address of the embedded vCenter's SDK, for govc; others can reach it only with serve --allow-unauthenticated")
	section(f, "Embedded vCenter")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&s.logFormat, "log-format", "json", "json, or console for terminals")
	section(f, "Log")
	complete(c, "adopt-from", "*=/")
	complete(c, "log-level", "debug", "info", "warn", "error")
	complete(c, "log-format", "json", "console")
}

// complete offers a flag's values for shell completion.
func complete(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // a bug: the flag doesn't exist, or has completions already
	}
}

// networks parses --guest-networks and --probe-networks.
func (s *settings) networks() (err error) {
	if s.vcenter.GuestNetworks, err = probe.ParseNetworks(s.guestNetworks); err != nil {
		return usageError{fmt.Errorf("--guest-networks (VMGROUP_GUEST_NETWORKS): %w", err)}
	}
	if s.probe.Networks.Allowed, err = probe.ParseNetworks(s.probeNetworks); err != nil {
		return usageError{fmt.Errorf("--probe-networks (VMGROUP_PROBE_NETWORKS): %w", err)}
	}
	own, err := net.InterfaceAddrs()
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			s.probe.Networks.Own = append(s.probe.Networks.Own, prefix.Addr().Unmap())
		}
	}
	if err != nil {
		return fmt.Errorf("this machine's own addresses, which are never probed: %w", err)
	}
	return nil
}

// adoptRules parses --adopt-from.
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

// All log lines use one format: times in UTC with milliseconds (RFC 3339), durations as a number of seconds, always under the key
// durationSeconds. zerolog has this format in global variables, which must be set before they are used.
func init() {
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.DurationFieldUnit = time.Second
	// The text of an error can come from vCenter, or from another server at its address, so its length must be bounded.
	zerolog.ErrorMarshalFunc = func(err error) any {
		if err == nil {
			return nil
		}
		return plan.Bounded(err.Error(), plan.TextMost)
	}
}

// logger returns a logger that writes to w.
func (s *settings) logger(w io.Writer) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(s.logLevel)
	if err != nil || level < zerolog.DebugLevel || level > zerolog.ErrorLevel {
		return zerolog.Nop(), usageError{fmt.Errorf("--log-level %q: must be debug, info, warn or error", s.logLevel)}
	}
	switch s.logFormat {
	case "json":
		w = jsonLines{secret.Writer{Writer: w}}
	case "console":
		w = zerolog.ConsoleWriter{Out: secret.Writer{Writer: w}, TimeFormat: "15:04:05.000", NoColor: os.Getenv("NO_COLOR") != "" || !isTerminal(w),
			FormatMessage: func(message any) string { // ConsoleWriter escapes fields, but not the message
				text, _ := message.(string)
				return plan.Printable(text)
			}}
	default:
		return zerolog.Nop(), usageError{fmt.Errorf("--log-format %q: must be json or console", s.logFormat)}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger(), nil
}

// checkSimulatorAddress refuses an address of the embedded vCenter that others can reach, unless simulatorForAll is set.
func (s *settings) checkSimulatorAddress(log zerolog.Logger) error {
	address, err := net.ResolveTCPAddr("tcp", s.sim.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("--simulator-listen %s: %w", s.sim.Listen, err)
	case address.IP.IsLoopback() || s.sim.Listen == "":
	case !s.simulatorForAll:
		return fmt.Errorf("--simulator-listen %s: others can reach it, and it accepts any user and password: use a loopback address, such as 127.0.0.1:8989 (or, with serve, --allow-unauthenticated)", s.sim.Listen)
	default:
		log.Warn().Msg("--allow-unauthenticated: anyone who can reach the embedded vCenter can do everything in it")
	}
	return nil
}

// simulatorUUID is the identity of every embedded vCenter: after a restart, groups find their members gone and recreate them,
// instead of waiting for a vCenter that never comes back.
const simulatorUUID = "5171a7ed-0000-4000-8000-000000000001"

// otherLines is a writer for another logger: it logs each line.
type otherLines struct {
	log   zerolog.Logger
	level zerolog.Level
}

func (o otherLines) Write(line []byte) (int, error) {
	o.log.WithLevel(o.level).Str("line", plan.Bounded(strings.TrimSpace(string(line)), plan.TextMost)).Msg("line of another logger")
	return len(line), nil
}

// allowSamples allows groups what the samples need, where the embedded vCenter has it and the user sets nothing else.
func (s *settings) allowSamples() {
	if s.adoptFrom == nil {
		s.adoptFrom = []string{"default=" + vcsim.LegacyFolder}
	}
	if s.vcenter.ExtraKeys == nil {
		s.vcenter.ExtraKeys = []string{"disk.EnableUUID"}
	}
	if s.vcenter.PCIDevices == nil {
		s.vcenter.PCIDevices = []string{"*"}
	}
}

// connect returns the vCenter side; with --simulator it first starts the embedded vCenter, which closeSimulator stops.
func (s *settings) connect(log zerolog.Logger) (vc *vsphere.VCenter, closeSimulator func(), err error) {
	closeSimulator = func() {}
	if s.simulator {
		s.allowSamples()
	}
	if s.vcenter.AdoptFrom, err = adoptRules(s.adoptFrom); err != nil {
		return nil, nil, err
	}
	if err = s.networks(); err != nil {
		return nil, nil, err
	}
	if err = errors.Join(s.vcenter.ExtraKeys.Validate(), s.vcenter.PCIDevices.Validate()); err != nil {
		return nil, nil, usageError{err}
	}
	if s.simulator {
		if s.vcenter.Host != "" {
			return nil, nil, usageError{errors.New("--simulator and --host (VC_HOST) exclude each other")} // without the URL, which may contain a password
		}
		if err := s.checkSimulatorAddress(log); err != nil {
			return nil, nil, usageError{err}
		}
		s.sim.Templates, s.sim.InstanceUUID = []string{"vm-operator-template", "vm-operator-template-2"}, simulatorUUID
		s.sim.Guest.Tools, s.sim.Furnished = true, true
		sim, err := vcsim.Start(s.sim)
		if err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				return nil, nil, usageError{cannotListen("simulator-listen", s.sim.Listen, err)}
			}
			return nil, nil, fmt.Errorf("start the embedded vCenter: %w", err)
		}
		stdlog.SetFlags(0)
		stdlog.SetOutput(otherLines{log, zerolog.DebugLevel}) // govmomi's simulator logs there, which would mix with the command's output
		closeSimulator = func() {
			if err := sim.Close(); err != nil {
				log.Warn().Err(err).Msg("the embedded vCenter did not close cleanly")
			}
		}
		s.probe.Dial, s.probe.Networks.Own = sim.DialGuest, nil // in memory: no packet leaves the process
		if len(s.probeNetworks) == 0 {
			s.probe.Networks.Allowed = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		}
		url := sim.URL()
		password, _ := url.User.Password()
		s.vcenter.Host, s.vcenter.User, s.vcenter.Password = url.Host, url.User.Username(), password
		s.vcenter.UserFile, s.vcenter.PasswordFile, s.vcenter.CAFile, s.vcenter.Insecure = "", "", "", false
		s.vcenter.Thumbprint = sim.ThumbprintSHA256()
		log.Info().Str("sdk", url.Host).Str("look_in", "GOVC_INSECURE=1 GOVC_URL="+url.String()+" govc find /DC0/vm").Msg("embedded vCenter: its VMs end with this process")
	} else if s.vcenter.Host == "" {
		return nil, nil, usageError{fmt.Errorf("--host (VC_HOST) is not set: name the vCenter, or use --simulator")}
	}
	if s.vcenter.Insecure {
		log.Warn().Msg("--insecure: vCenter's certificate is not verified, so an attacker on the network can read its password; use --ca-file or --thumbprint")
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

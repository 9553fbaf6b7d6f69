package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const envAnnotation = "vmgroup.env"

// env ties a flag to its environment variable, and names that in the flag's help.
func env(flags *pflag.FlagSet, name, variable string) {
	f := flags.Lookup(name)
	f.Annotations = map[string][]string{envAnnotation: {variable}}
	f.Usage += " [$" + variable + "]"
}

// fromEnvironment sets flags that are not on the command line from their variables. An empty variable counts as not set.
func fromEnvironment(c *cobra.Command) error {
	var errs []error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		variable := f.Annotations[envAnnotation]
		if len(variable) == 0 || f.Changed {
			return
		}
		if value := os.Getenv(variable[0]); value != "" {
			if err := c.Flags().Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("the environment variable %s (flag --%s): %w", variable[0], f.Name, err))
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

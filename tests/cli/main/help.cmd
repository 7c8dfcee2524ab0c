# The table of commands; wrong commands name the nearest.
floodmark --help | head -n 2
floodmark --version
floodmark plann
echo $?
floodmark validat
echo $?
floodmark nothing-like-it
echo $?
floodmark help nothing
echo $?
floodmark help plan | head -n 1
floodmark >/dev/null 2>&1
echo $?
